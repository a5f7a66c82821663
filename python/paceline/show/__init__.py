"""Visual output: colours, panels, pages and figures of runs."""
