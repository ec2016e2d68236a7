// swift-tools-version: 6.1
import PackageDescription

// Programs and adapters as an app's package has them: they use the public API only. Built and tested by scripts/checks/examples,
// so that the root package has no dependencies.
let package = Package(
    name: "examples",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "im-transports", path: ".."),
        .package(url: "https://github.com/apple/swift-log", from: "1.10.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.5.0"),
        .package(url: "https://github.com/apple/swift-protobuf", from: "1.28.0"),
    ],
    targets: [
        // A transport of its own: a protocol core over TCP.
        .target(
            name: "OwnTransport",
            dependencies: [
                .product(name: "TransportAPI", package: "im-transports"),
                .product(name: "Transports", package: "im-transports"),
            ]
        ),
        .testTarget(
            name: "OwnTransportTests",
            dependencies: [
                "OwnTransport",
                .product(name: "TransportContract", package: "im-transports"),
                .product(name: "EmbeddedServers", package: "im-transports"),
            ]
        ),
        // Waits for Ctrl-C.
        .target(name: "Interruption"),
        // A chat with identities and sessions.
        .executableTarget(
            name: "ChatServer",
            dependencies: [
                "Interruption",
                .product(name: "Codecs", package: "im-transports"),
                .product(name: "TransportAPI", package: "im-transports"),
                .product(name: "Transports", package: "im-transports"),
            ]
        ),
        .executableTarget(
            name: "ChatClient",
            dependencies: [
                "Interruption",
                .product(name: "Codecs", package: "im-transports"),
                .product(name: "TransportAPI", package: "im-transports"),
                .product(name: "Transports", package: "im-transports"),
            ]
        ),
        .testTarget(name: "ChatTests", dependencies: ["ChatServer", "ChatClient"]),
        // Adapters for swift-log, swift-metrics, Observation, Codable and SwiftProtobuf.
        .target(
            name: "Adapters",
            dependencies: [
                .product(name: "Codecs", package: "im-transports"),
                .product(name: "TransportAPI", package: "im-transports"),
                .product(name: "Transports", package: "im-transports"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "SwiftProtobuf", package: "swift-protobuf"),
            ]
        ),
        .testTarget(
            name: "AdapterTests",
            dependencies: [
                "Adapters",
                .product(name: "EmbeddedServers", package: "im-transports"),
                .product(name: "InMemoryLogging", package: "swift-log"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
