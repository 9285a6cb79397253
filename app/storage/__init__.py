"""What the application keeps on disk: settings (a JSON file) and chats (a SQLite file)."""
