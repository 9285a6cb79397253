"""How the starter image model was made: its pictures, its captions, its training."""
