"""The error catalogue of the hooks: what a model asks for and our operators do not take."""

from __future__ import annotations

from tilewright.errors import TilewrightError


class IntegrationError(TilewrightError, ValueError):
    """A model, or an option that it passes, which the hooks cannot serve."""
