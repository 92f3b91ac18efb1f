"""The page that shows a recording at a glance, and the page of many recordings."""
