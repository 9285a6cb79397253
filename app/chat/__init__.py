"""The chat page: list of chats, conversation, composer, and what happens between them."""
