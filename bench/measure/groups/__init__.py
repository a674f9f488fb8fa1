"""Groups of ranks: started, waited for, timed block by block."""
