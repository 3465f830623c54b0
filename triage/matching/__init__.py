"""Signatures: loading, scanning for them, and turning a hit into a Signal."""
