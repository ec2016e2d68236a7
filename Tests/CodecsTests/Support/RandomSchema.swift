extension SeededGenerator {
    /// The schemas of three levels of messages. Each has up to sixteen fields, with numbers of every size.
    mutating func levels() -> [[DynamicSchema.Field]] {
        (0..<3).map { level in
            let names: [StaticString] = [
                "alpha", "betaGamma", "delta", "epsilonZeta", "eta", "theta", "iotaKappa", "lambda", "mu", "nuXi",
                "omicron", "pi", "rho", "sigmaTau", "upsilon", "phi",
            ]
            var numbers: Set<UInt32> = []
            for _ in 0..<(level == 0 ? 16 : 8) { numbers.insert(fieldNumber()) }
            return zip(numbers.sorted(), names.shuffled(using: &self)).map { number, name in
                field(number, name, mayNest: level < 2)
            }
        }
    }

    /// A random field number. A third of them are at the boundaries of tag sizes. Those that protobuf reserves are left out.
    private mutating func fieldNumber() -> UInt32 {
        let bounds: [UInt32] = [1, 15, 16, 2047, 2048, 262_143, 262_144, 18_999, 20_000, 536_870_911]
        guard !oneIn(3) else { return bounds.randomElement(using: &self) ?? 1 }
        let number = max(self.number(UInt32.self) >> 3, 1)
        return 19_000...19_999 ~= number ? 20_001 : number
    }

    private mutating func field(_ number: UInt32, _ name: StaticString, mayNest: Bool) -> DynamicSchema.Field {
        let values = DynamicSchema.Value.allCases.filter { mayNest || $0 != .message }
        let value = oneIn(5) && mayNest ? .message : values.randomElement(using: &self) ?? .bool
        var shapes: [DynamicSchema.Shape] = [.optional, .packed, .unpacked]
        if value != .message { shapes.append(.single) }
        let keys = DynamicSchema.Value.allCases.filter(\.isKey)
        shapes.append(.map(keys.randomElement(using: &self) ?? .bool))
        let shape = shapes.randomElement(using: &self) ?? .optional
        return DynamicSchema.Field(number: number, name: name, value: value, shape: shape)
    }
}

extension DynamicSchema {
    /// The text of the schemas on all levels. The outermost message is `Outermost`.
    static func proto(_ levels: [[Field]]) -> String {
        let names = ["Outermost", "Middle", "Innermost", ""]
        let messages = levels.indices.map { level in
            let fields = levels[level].map { "  \($0.declaration(nesting: names[level + 1]))\n" }.joined()
            return "message \(names[level]) {\n\(fields)}\n"
        }
        let colour = "enum Colour { COLOUR_RED = 0; COLOUR_GREEN = 1; COLOUR_BLUE = -5; }\n"
        return "syntax = \"proto3\";\n" + colour + messages.joined()
    }
}

extension DynamicSchema.Field {
    fileprivate func declaration(nesting message: String) -> String {
        let type = value == .message ? message : value == .colour ? "Colour" : "\(value)"
        let snake = "\(name)".map { $0.isUppercase ? "_\($0.lowercased())" : "\($0)" }.joined()
        let isPackable = ![.string, .bytes, .message].contains(value)
        return switch shape {
        case .single: "\(type) \(snake) = \(number);"
        case .optional: "optional \(type) \(snake) = \(number);"
        case .packed: "repeated \(type) \(snake) = \(number);"
        case .unpacked: "repeated \(type) \(snake) = \(number)\(isPackable ? " [packed = false]" : "");"
        case .map(let key): "map<\(key), \(type)> \(snake) = \(number);"
        }
    }
}
