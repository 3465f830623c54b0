"""The nouns: frozen records without logic, shared by every layer."""
