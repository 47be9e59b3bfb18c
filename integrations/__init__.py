"""Hooks into frameworks: one package each, imported only when asked for."""
