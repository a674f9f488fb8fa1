"""One rank: the process, the requests that it answers, and the training behind them."""
