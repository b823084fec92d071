"""What an application imports: tasks, schedules, submitting them, middleware."""
