// Function multiversioning for hot loops: the loader picks the widest vector unit of the host.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TILEWRIGHT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TILEWRIGHT_CLONES
#endif
