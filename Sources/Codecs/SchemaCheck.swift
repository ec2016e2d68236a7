import Synchronization

/// Checks the declaration of a message type before the first message of that type is written or read.
///
/// Field numbers must be unique and within the range of protobuf (Protocol Buffers, "Language Guide (proto 3)": Assigning
/// Field Numbers). JSON names must be unique. `init()` must leave each field at a value that is not written, because a
/// reader leaves it there if the input lacks the field. The types of nested messages are checked too. A type that is
/// correct is not checked again. A type that is not correct fails at every use.
///
/// XML has fewer names than JSON. A type with a name that XML does not have is correct, and fails at every use with XML.
@usableFromInline
enum SchemaCheck {
    /// Throws ``CodecError/Code/invalidSchema`` if the declaration of the type is wrong.
    @inlinable @inline(__always)
    static func require<M: WireMessage>(_ type: M.Type) throws(CodecError) {
        guard !isKnown(ObjectIdentifier(type)) else { return }
        try check(type)
    }

    /// The same for a type that is used with XML: also if the name of a field cannot be the name of an element.
    @inlinable @inline(__always)
    static func requireXML<M: WireMessage>(_ type: M.Type) throws(CodecError) {
        try require(type)
        try checkNames(ObjectIdentifier(type))
    }

    // MARK: Types that have been checked

    /// The number of slots is a power of two.
    private static let slotBits: UInt64 = 10
    /// The address of the slots, or zero before the first type. Each slot holds a correct type with its hash, so that a
    /// lookup takes two loads and no lock. A type whose slot is taken by another is found in `correct`.
    private static let slots = Atomic<UInt>(0)
    /// All correct types.
    private static let correct = Mutex<Set<ObjectIdentifier>>([])

    /// Whether `withoutXML` has entries. Programs whose types all have names of XML take no lock.
    private static let hasTypesWithoutXML = Atomic(false)
    /// The correct types that cannot be used with XML, each with the reason.
    private static let withoutXML = Mutex<[ObjectIdentifier: String]>([:])

    private typealias Slot = UnsafePointer<Atomic<UInt>>

    /// The slot of the type, if there are slots.
    @inline(__always)
    private static func slot(of type: ObjectIdentifier) -> Slot? {
        // Multiplicative hashing (Knuth, "The Art of Computer Programming", section 6.4).
        let hash = UInt64(UInt(bitPattern: type)) &* 0x9E37_79B9_7F4A_7C15
        return Slot(bitPattern: slots.load(ordering: .acquiring))
            .map { $0 + Int(truncatingIfNeeded: hash &>> (64 - slotBits)) }
    }

    /// Whether the type is in its slot.
    @inline(never)
    @usableFromInline
    static func isKnown(_ type: ObjectIdentifier) -> Bool {
        slot(of: type)?.pointee.load(ordering: .relaxed) == UInt(bitPattern: type)
    }

    /// Checks the type unless it is known to be correct.
    @inline(never)
    @usableFromInline
    static func check<M: WireMessage>(_ type: M.Type) throws(CodecError) {
        let identifier = ObjectIdentifier(type)
        if !correct.withLock({ $0.contains(identifier) }) {
            if let problem = try checkDeclarations(from: type) {
                withoutXML.withLock { $0[identifier] = problem }
                hasTypesWithoutXML.store(true, ordering: .relaxed)
            }
            correct.withLock { correct in
                correct.insert(identifier)
                if slots.load(ordering: .relaxed) == 0 { allocateSlots() }
            }
        }
        // Whoever finds the type in its slot, and then passes the fence of `checkNames`, sees what is written above.
        slot(of: identifier)?.pointee.store(UInt(bitPattern: identifier), ordering: .releasing)
    }

    /// Throws if the type, which is correct, cannot be used with XML.
    @inline(never)
    @usableFromInline
    static func checkNames(_ type: ObjectIdentifier) throws(CodecError) {
        atomicMemoryFence(ordering: .acquiring)
        guard hasTypesWithoutXML.load(ordering: .relaxed), let problem = withoutXML.withLock({ $0[type] }) else {
            return
        }
        throw CodecError(invalidSchema: problem)
    }

    /// Allocates the slots, which are never freed. The caller holds the lock.
    private static func allocateSlots() {
        let base = UnsafeMutablePointer<Atomic<UInt>>.allocate(capacity: 1 << slotBits)
        for index in 0..<1 << slotBits { (base + Int(index)).initialize(to: Atomic(0)) }
        slots.store(UInt(bitPattern: base), ordering: .releasing)
    }

    // MARK: Declarations

    /// Checks the type, and all types of messages that it can contain.
    ///
    /// - Returns: the reason why the type cannot be used with XML; `nil` if it can.
    private static func checkDeclarations<M: WireMessage>(from type: M.Type) throws(CodecError) -> String? {
        var problem: String?
        var found: Set<ObjectIdentifier> = [ObjectIdentifier(type)]
        var pending: [any WireMessage.Type] = [type]
        while let next = pending.popLast() {
            for nested in try nestedTypes(of: next, &problem) where found.insert(ObjectIdentifier(nested)).inserted {
                pending.append(nested)
            }
        }
        return problem
    }

    /// Checks the type alone.
    ///
    /// - Parameter problemOfXML: the reason why a type cannot be used with XML, which is set if there is none before.
    /// - Returns: the types of the messages that its fields contain.
    private static func nestedTypes<M: WireMessage>(
        of type: M.Type,
        _ problemOfXML: inout String?
    ) throws(CodecError) -> [any WireMessage.Type] {
        var visitor = SchemaVisitor()
        var message = M()
        try message.visitFields(&visitor)
        if let problem = visitor.problem { throw CodecError(invalidSchema: "\(type) \(problem)") }
        if problemOfXML == nil, let name = visitor.nameWithoutXML {
            problemOfXML = """
                \(type) declares the field '\(name)', which is not the name of an XML element; \
                use JSON or protobuf, or another name
                """
        }
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
    /// The mistake in the first field that has one. The subject of the sentence is the message type.
    private(set) var problem: String?
    /// The first name that XML does not have.
    private(set) var nameWithoutXML: StaticString?
    private(set) var nestedTypes: [any WireMessage.Type] = []

    /// Notes a field.
    ///
    /// - Parameter isAbsent: whether the initial value is read from an input without the field, and only from that.
    private mutating func declare<T>(_ number: UInt32, _ name: StaticString, _ type: T.Type, isAbsent: Bool) {
        if let message = type as? any WireMessage.Type {
            nestedTypes.append(message)
        } else if let container = type as? any MessageContainer.Type {
            nestedTypes.append(container.messageType)
        }
        if nameWithoutXML == nil, !XMLCharacters.isElementName(name) { nameWithoutXML = name }
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
        } else if !isAbsent {
            problem = """
                sets the field '\(name)' in init(), but a field that is zero, empty or nil is not sent and would be read as \
                this value; set it in another initialiser
                """
        }
    }

    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        declare(number, name, T.self, isAbsent: value.isDefault || !T().isDefault)
    }

    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        declare(number, name, T.self, isAbsent: value == nil)
    }

    mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        as encoding: IntegerEncoding,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError) {
        declare(number, name, T.self, isAbsent: choice == nil)
    }

    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError) {
        declare(number, name, T.self, isAbsent: values.isEmpty)
    }

    mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        declare(number, name, T.self, isAbsent: values.isEmpty)
    }

    mutating func unknownFields(_ storage: inout UnknownFields) throws(CodecError) {}
}
