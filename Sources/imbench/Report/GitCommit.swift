/// Finds the commit of a checkout by reading its files (gitrepository-layout(5)), without running git.
enum GitCommit {
    /// The commit of the checkout that holds the running program, as `.build/release/imbench` is held by one.
    static func ofThisProgram() -> String? {
        ThisProgram.path.flatMap(above)
    }

    /// The commit of the nearest checkout in a folder above `path`.
    static func above(_ path: String) -> String? {
        var folder = Substring(path)
        while let slash = folder.lastIndex(of: "/") {
            folder = folder[..<slash]
            if let commit = commit(ofCheckout: String(folder)) { return commit }
        }
        return nil
    }

    /// The commit that is checked out in `folder`, if it is the top of a checkout.
    static func commit(ofCheckout folder: String) -> String? {
        var git = folder + "/.git"
        // In a linked worktree .git is a file that names the folder.
        if let pointer = readFile(git, limit: 4096), let target = value(of: "gitdir: ", in: pointer) {
            git = target.hasPrefix("/") ? target : folder + "/" + target
        }
        guard let head = readFile(git + "/HEAD", limit: 4096) else { return nil }
        guard let reference = value(of: "ref: ", in: head) else { return hash(head) }
        guard !reference.contains("..") else { return nil }

        var shared = git
        if let common = readFile(git + "/commondir", limit: 4096).flatMap({ value(of: "", in: $0) }) {
            shared = common.hasPrefix("/") ? common : git + "/" + common
        }
        if let text = readFile(shared + "/" + reference, limit: 4096) { return hash(text) }
        let packed = readFile(shared + "/packed-refs", limit: 1 << 22) ?? ""
        let line = packed.split(separator: "\n").first { $0.hasSuffix(" " + reference) }
        return line.flatMap { hash(String($0)) }
    }

    /// What follows `prefix` on the first line.
    private static func value(of prefix: String, in text: String) -> String? {
        guard let line = text.split(separator: "\n").first, line.hasPrefix(prefix) else { return nil }
        return String(line.dropFirst(prefix.count))
    }

    /// The hash with which a text begins: 40 digits of SHA-1 or 64 of SHA-256.
    private static func hash(_ text: String) -> String? {
        let digits = text.prefix { $0.isHexDigit }
        return digits.count == 40 || digits.count == 64 ? String(digits) : nil
    }
}
