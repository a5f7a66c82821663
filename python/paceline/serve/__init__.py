"""A local page over the folder of runs: browse, lay over each other, change and run again."""
