/// A property whose value no printed text shows: a password, a token, a private key.
///
/// Code reads and writes it as any other property. Printing, dumping, a debugger and a failed test show `(hidden)` in its place,
/// and so does everything that contains it.
///
/// ```swift
/// struct LoginSettings: Sendable {
///     var user = ""
///     @Secret var password = ""
/// }
/// ```
@propertyWrapper
public struct Secret<Value> {
    /// The value itself.
    public var wrappedValue: Value

    /// Hides a value.
    @inlinable
    public init(wrappedValue: Value) {
        self.wrappedValue = wrappedValue
    }
}

extension Secret: Sendable where Value: Sendable {}
extension Secret: Equatable where Value: Equatable {}
extension Secret: Hashable where Value: Hashable {}

extension Secret: CustomStringConvertible, CustomReflectable {
    /// A text that says nothing about the value.
    public var description: String { "(hidden)" }

    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
