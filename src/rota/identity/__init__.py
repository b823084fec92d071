"""Tokens that others signed: who is behind them, and what they may do."""
