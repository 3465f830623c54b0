"""Reproductions: runnable scripts made from templates, with the values that the evidence has."""
