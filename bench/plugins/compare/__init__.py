"""Did training become slower, or larger, between two sets of results?"""
