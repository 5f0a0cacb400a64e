"""Named methods: functions from a name to the settings that make it."""
