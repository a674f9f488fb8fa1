"""Starting, driving and ending worker groups. Imports no torch: only the processes it starts do."""
