"""What a build will take: a sample of the source goes through every stage here, and the whole is computed from it."""
