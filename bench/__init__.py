"""The laboratory: Rota started for itself, measured with everything around it in sight."""
