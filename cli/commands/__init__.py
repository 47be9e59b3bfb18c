"""One file a command; ``tilewright.cli.main`` lists them in order."""
