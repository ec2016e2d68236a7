// This target declares nothing. Linking it is enough.
