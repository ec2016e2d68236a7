/// When a store asks the system to write to the disk (fsync(2)), so that its records survive a crash of the system or a
/// power cut. They survive the end of the process in any case.
public enum StoreSync: Sendable, Hashable {
    /// After each write. On Apple's systems the disk empties its own cache, too (F_FULLFSYNC). Each write then takes as
    /// long as the disk does, often some milliseconds.
    case always
    /// At most this long after a write. A power cut loses only messages that were accepted in this time. It is 1 ms to
    /// 1 h; other values count as the nearest of these.
    case interval(Duration)
    /// When the system decides, which on Linux usually is within half a minute.
    case none

    /// An interval of one second, the default of all stores. The usual end of an app is that the system or a crash ends
    /// its process, which needs no fsync. One call a second costs no time that a user notices, and hardly any power.
    public static let `default` = StoreSync.interval(.seconds(1))
}
