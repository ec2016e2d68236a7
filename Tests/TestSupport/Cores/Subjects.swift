import Protocols

/// The subjects of NATS, as a second syntax of topics: their levels are separated by dots, `>` needs at least one level, and
/// wildcards match all subjects.
package enum Subjects: TopicSyntax {
    package static var separator: UInt8 { UInt8(ascii: ".") }
    package static var singleLevel: UInt8 { UInt8(ascii: "*") }
    package static var multiLevel: UInt8 { UInt8(ascii: ">") }
    package static var multiLevelMatchesNone: Bool { false }
    package static var hidden: UInt8? { nil }
}
