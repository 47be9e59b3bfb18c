"""Recipes: functions that read a program's outline and return a schedule, one module an architecture."""
