"""Two or more runs side by side: what changed between them, what moved, and whether that is more than chance.

Pure functions on what the pipeline understood of each run (`runs.Run`); `intervals` holds the statistics.
"""
