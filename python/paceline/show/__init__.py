"""What people look at: colours, panels, pages and figures of runs."""
