"""How events leave the installation: sealed addresses, signed webhooks, messages by Apprise."""
