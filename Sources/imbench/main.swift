print("imbench")
