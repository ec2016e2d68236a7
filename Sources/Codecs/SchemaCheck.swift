import Synchronization

/// Checks the declaration of a message type before the first message of that type is written or read.
///
/// Field numbers must be unique and within the range of protobuf (Protocol Buffers, "Language Guide (proto 3)": Assigning
/// Field Numbers). JSON names must be unique. The types of nested messages are checked too. A type that is correct is not
/// checked again. A type that is not correct fails at every use.
@usableFromInline
enum SchemaCheck {
    /// Throws ``CodecError/Code/invalidSchema`` if the declaration of the type is wrong.
    @inlinable @inline(__always)
    static func require<M: WireMessage>(_ type: M.Type) throws(CodecError) {
        guard !isKnown(ObjectIdentifier(type)) else { return }
        try check(type)
    }

    // MARK: Types that have been checked

    /// Correct types, each in the slot of its hash, so that a lookup is one load and takes no lock. A type whose slot
    /// has been taken by another is looked up in `correct`.
    private static let slots = {
        let slots = UnsafeMutablePointer<Atomic<UInt>>.allocate(capacity: slotCount)
        for index in 0..<slotCount { (slots + index).initialize(to: Atomic(0)) }
        return UncheckedSlots(base: slots)
    }()
    private static let slotCount = 1 << slotBits
    private static let slotBits: UInt64 = 10
    private static let correct = Mutex<Set<ObjectIdentifier>>([])

    /// The slots stay at one address for the life of the process, and each of them is atomic.
    private struct UncheckedSlots: @unchecked Sendable {
        let base: UnsafeMutablePointer<Atomic<UInt>>
    }

    @inline(__always)
    private static func slot(of type: ObjectIdentifier) -> UnsafeMutablePointer<Atomic<UInt>> {
        // Multiplicative hashing (Knuth, "The Art of Computer Programming", section 6.4).
        let hash = UInt64(UInt(bitPattern: type)) &* 0x9E37_79B9_7F4A_7C15
        return slots.base + Int(truncatingIfNeeded: hash &>> (64 - slotBits))
    }

    /// Whether the type is in its slot.
    @inline(never)
    @usableFromInline
    static func isKnown(_ type: ObjectIdentifier) -> Bool {
        // A type is only compared, so that no other memory needs to be visible.
        slot(of: type).pointee.load(ordering: .relaxed) == UInt(bitPattern: type)
    }

    /// Checks the type unless it is known to be correct.
    @inline(never)
    @usableFromInline
    static func check<M: WireMessage>(_ type: M.Type) throws(CodecError) {
        let identifier = ObjectIdentifier(type)
        if !correct.withLock({ $0.contains(identifier) }) {
            try checkDeclarations(from: type)
            _ = correct.withLock { $0.insert(identifier) }
        }
        slot(of: identifier).pointee.store(UInt(bitPattern: identifier), ordering: .relaxed)
    }

    // MARK: Declarations

    /// Checks the type, and all types of messages that it can contain.
    private static func checkDeclarations<M: WireMessage>(from type: M.Type) throws(CodecError) {
        var found: Set<ObjectIdentifier> = [ObjectIdentifier(type)]
        var pending: [any WireMessage.Type] = [type]
        while let next = pending.popLast() {
            for nested in try nestedTypes(of: next) where found.insert(ObjectIdentifier(nested)).inserted {
                pending.append(nested)
            }
        }
    }

    /// Checks the type alone.
    ///
    /// - Returns: the types of the messages that its fields contain.
    private static func nestedTypes<M: WireMessage>(of type: M.Type) throws(CodecError) -> [any WireMessage.Type] {
        var visitor = SchemaVisitor()
        var message = M()
        try message.visitFields(&visitor)
        if let problem = visitor.problem { throw CodecError(invalidSchema: "\(type) \(problem)") }
        return visitor.nestedTypes
    }
}

/// A value that contains a message of a type, such as ``Indirect``.
protocol MessageContainer {
    static var messageType: any WireMessage.Type { get }
}

/// Collects the declarations of one message type.
private struct SchemaVisitor: FieldVisitor {
    private var names: [UInt32: StaticString] = [:]
    private var numbers: [UTF8Key: UInt32] = [:]
    /// What is wrong with the first field that is wrong. The subject of the sentence is the message type.
    private(set) var problem: String?
    private(set) var nestedTypes: [any WireMessage.Type] = []

    private mutating func declare<T>(_ number: UInt32, _ name: StaticString, _ type: T.Type) {
        if let message = type as? any WireMessage.Type {
            nestedTypes.append(message)
        } else if let container = type as? any MessageContainer.Type {
            nestedTypes.append(container.messageType)
        }
        let same = names.updateValue(name, forKey: number)
        let sameName = numbers.updateValue(number, forKey: UTF8Key("\(name)"))
        guard problem == nil else { return }
        if let same {
            problem = "declares the field number \(number) twice, as '\(same)' and as '\(name)'"
        } else if let sameName {
            problem = "declares the JSON name '\(name)' twice, as field \(sameName) and as field \(number)"
        } else if !(1...536_870_911).contains(number) || (19_000...19_999).contains(number) {
            problem = """
                declares the field '\(name)' with the number \(number); allowed are 1 to 536870911 without 19000 to 19999
                """
        }
    }

    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        declare(number, name, T.self)
    }

    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        declare(number, name, T.self)
    }

    mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        as encoding: IntegerEncoding,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError) {
        declare(number, name, T.self)
    }

    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError) {
        declare(number, name, T.self)
    }

    mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        declare(number, name, T.self)
    }

    mutating func unknownFields(_ storage: inout UnknownFields) throws(CodecError) {}
}
