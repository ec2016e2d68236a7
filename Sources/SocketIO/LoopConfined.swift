/// Something that only one event loop may touch, in the hands of whoever may pass it around: the one door through which
/// code of any thread gets at what lives on a loop, and it opens on the loop alone.
public struct LoopConfined<Value>: @unchecked Sendable {
    // Unchecked, because the door below is what makes it safe.

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
