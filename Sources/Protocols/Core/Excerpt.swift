extension String {
    /// The beginning of a text that is not trusted, so that it can be shown anywhere: at most `limit` bytes, with `?` for each
    /// one that is not printable ASCII, and `...` if more follow.
    package init(excerptOf bytes: some Collection<UInt8>, limit: Int = 80) {
        let shown = bytes.prefix(limit).map { $0 >= 0x20 && $0 < 0x7f ? $0 : UInt8(ascii: "?") }
        self = String(decoding: shown, as: UTF8.self) + (bytes.count > limit ? "..." : "")
    }
}
