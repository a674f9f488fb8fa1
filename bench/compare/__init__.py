"""Did training become slower, or take more memory, between two sets of results?"""
