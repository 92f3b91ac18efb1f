"""Pictures of arrays, for the page, the video, Rerun, `picture`, notebooks and the manual. No files and recordings."""
