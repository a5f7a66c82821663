"""A local page over the folder of runs: browse, overlay, change and run again."""
