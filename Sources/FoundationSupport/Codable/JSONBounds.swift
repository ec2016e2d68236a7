import Codecs

/// Checks the size of a JSON text before Foundation reads it, whose decoder has no such limits. It recurses for each level, puts the
/// members of an object into a dictionary, and the hash of a `String` takes a time that is quadratic in its number of combining
/// marks: a key of 160 KB took 5 s.
enum JSONBounds {
    /// Checks a text. Whether it is JSON at all is the decoder's to say.
    ///
    /// - Throws: `.tooLong`, `.tooDeep`, `.keyTooLong` or `.tooManyElements` beyond the limits, `.malformed` for UTF-16 and UTF-32.
    static func check(_ bytes: [UInt8], _ limits: CodecLimits) throws(CodecError) {
        guard bytes.count <= limits.maximumLength else {
            throw beyond(.tooLong, "a message of at most \(limits.maximumLength) bytes", "a longer one")
        }
        // In UTF-16 and UTF-32, which Foundation recognizes by these bytes, the delimiters are not single bytes.
        guard !bytes.prefix(4).contains(0), !bytes.starts(with: [0xfe, 0xff]), !bytes.starts(with: [0xff, 0xfe]) else {
            throw CodecError(.malformed, problem: "expected JSON in UTF-8, found something else")
        }
        var scan = Scan(limits: limits)
        let result: Result<Void, CodecError> = bytes.withUnsafeBufferPointer { bytes in
            Result { () throws(CodecError) in
                for (place, byte) in bytes.enumerated() { try scan.read(byte, at: place) }
            }
        }
        try result.get()
    }

    private struct Scan {
        let limits: CodecLimits
        var depth = 0
        /// The values of all arrays and objects so far.
        var count = 0
        /// Where the text in which the scan is has begun; `nil` outside of texts.
        var begin: Int?
        var isEscaped = false
        /// The length of the text that has just ended, which is a key if a colon follows.
        var lastLength = 0

        mutating func read(_ byte: UInt8, at place: Int) throws(CodecError) {
            if let begin {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    lastLength = place - begin - 1
                    self.begin = nil
                }
                return
            }
            switch byte {
            case UInt8(ascii: "\""): begin = place
            case UInt8(ascii: ":"):
                guard lastLength <= limits.maximumKeyLength else {
                    throw beyond(.keyTooLong, "keys of at most \(limits.maximumKeyLength) bytes", "a longer one")
                }
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                guard depth <= limits.maximumDepth else {
                    throw beyond(.tooDeep, "at most \(limits.maximumDepth) levels of objects and arrays", "more")
                }
                try countValue()
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ","): try countValue()
            default: break
            }
        }

        private mutating func countValue() throws(CodecError) {
            count += 1
            guard count <= limits.maximumElements else {
                throw beyond(.tooManyElements, "at most \(limits.maximumElements) values in arrays and objects", "more")
            }
        }
    }
}

private func beyond(_ code: CodecError.Code, _ expected: String, _ found: String) -> CodecError {
    CodecError(code, problem: "expected \(expected), found \(found)")
}
