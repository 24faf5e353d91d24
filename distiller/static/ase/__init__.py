"""ASE (Bommasani et al. 2020): the vector of a word is the mean of its vectors in the contexts in which it occurs."""
