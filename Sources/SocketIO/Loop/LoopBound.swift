/// An object that only one event loop may touch, in a value that any thread may pass on. The object is reached on the
/// loop alone.
///
/// `Value` is a class and not any type, because Swift 6.3 miscompiles a getter of an unconstrained generic struct that makes a
/// call and then returns a stored reference. Its optimizer takes the object for one that no other code can reach, so that a
/// property that is read twice is loaded once, whatever a call or an `await` between the two has changed.
public struct LoopBound<Value: AnyObject>: @unchecked Sendable {
    // Unchecked, because `value` and `here` check the loop.

    /// The loop.
    public let loop: EventLoop
    @usableFromInline let confined: Value

    /// Confines `value`, which nobody else may hold, to `loop`.
    public init(_ value: sending Value, to loop: EventLoop) {
        confined = value
        self.loop = loop
    }

    /// Makes `value`, which lives on `loop` already, something that can be passed around. To be called on the loop.
    public init(living value: Value, on loop: EventLoop) {
        loop.assertCurrent()
        confined = value
        self.loop = loop
    }

    /// The value. Stops the program if the caller is not on the loop: a mistake in this program that would race.
    @inlinable
    public var value: Value {
        loop.assertCurrent()
        return confined
    }

    /// The value if the caller is on the loop; else `nil`.
    @inlinable
    public var here: Value? { loop.isCurrent ? confined : nil }
}

/// An object that holds a value, such as one of a protocol's type, where an object is asked for.
package final class Box<Value> {
    package let value: Value

    package init(_ value: Value) {
        self.value = value
    }
}
