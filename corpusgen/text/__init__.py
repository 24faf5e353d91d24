"""Turn raw text into filtered sentences with exact character offsets."""
