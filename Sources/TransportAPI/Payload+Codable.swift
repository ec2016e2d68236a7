import Primitives

/// A payload is encoded as `{"text": "hello"}` or `{"data": "aGVsbG8="}` (Base64, RFC 4648, section 4). The keys
/// `topic`, `qos` (0 to 2), `retained` and `duplicate` are written only if they differ from their defaults.
extension Payload: Codable {
    private enum Key: String, CodingKey {
        case text, data, kind, topic, qos, retained, duplicate
    }

    /// Decodes a payload.
    ///
    /// - Throws: `DecodingError` if it has neither `text` nor `data` or both, if `data` is not Base64, or if `qos` is
    ///   above 2.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        func fail(_ key: Key, _ problem: String) -> DecodingError {
            .dataCorruptedError(forKey: key, in: values, debugDescription: problem)
        }
        let text = try values.decodeIfPresent(String.self, forKey: .text)
        let data = try values.decodeIfPresent(String.self, forKey: .data)
        switch (text, data) {
        case (let text?, nil):
            (bytes, kind) = (Array(text.utf8), .text)
        case (nil, let data?):
            guard let decoded = Array(data.utf8).withUnsafeBufferPointer({ Base64.decode($0) }) else {
                throw fail(.data, "'data' is not Base64")
            }
            bytes = decoded
            kind = try values.decodeIfPresent(String.self, forKey: .kind) == "text" ? .text : .binary
        case (nil, nil), (_?, _?):
            throw fail(.text, "a payload has either 'text' or 'data'")
        }
        topic = try values.decodeIfPresent(String.self, forKey: .topic)
        qos = try values.decodeIfPresent(UInt8.self, forKey: .qos).map { number in
            guard let qos = QoS(rawValue: number) else {
                throw fail(.qos, "'qos' is \(number); allowed are 0, 1 and 2")
            }
            return qos
        }
        isRetained = try values.decodeIfPresent(Bool.self, forKey: .retained) ?? false
        isDuplicate = try values.decodeIfPresent(Bool.self, forKey: .duplicate) ?? false
    }

    /// Encodes the payload, with the bytes of a text as `text`, and all other bytes as `data`.
    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: Key.self)
        if kind == .text, let text = String(validating: bytes, as: UTF8.self) {
            try values.encode(text, forKey: .text)
        } else {
            try values.encode(String(decoding: Base64.encode(bytes), as: UTF8.self), forKey: .data)
            // Text that is not UTF-8 stays text.
            if kind == .text { try values.encode("text", forKey: .kind) }
        }
        try values.encodeIfPresent(topic, forKey: .topic)
        try values.encodeIfPresent(qos?.rawValue, forKey: .qos)
        if isRetained { try values.encode(true, forKey: .retained) }
        if isDuplicate { try values.encode(true, forKey: .duplicate) }
    }
}
