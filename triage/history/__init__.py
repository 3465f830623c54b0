"""Memory of explained incidents: seen before, on which node, what was done, and did it hold."""
