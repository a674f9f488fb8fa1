"""The harness measured with itself: does it find what is there, and nothing else, and what does it cost?"""
