// swift-tools-version: 6.1
import PackageDescription

// Compares this package with others and with what C does without any. Built by scripts/measure/bench alone, so that the root
// package has no dependencies. The files that it shares with imbench are symbolic links in Sources/bench/Shared.
//
// The bench also measures parts that are `package` in the root package. A build for testing would be slower than a
// release, so the bench is compiled without access control.

let package = Package(
    name: "benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "im-transports", path: ".."),
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
        .package(url: "https://github.com/apple/swift-protobuf", exact: "1.39.0"),
        .package(url: "https://github.com/swhitty/FlyingFox", exact: "0.27.1"),
    ],
    targets: [
        .target(name: "CBench"),
        .executableTarget(
            name: "bench",
            dependencies: [
                "CBench",
                .product(name: "TransportAPI", package: "im-transports"),
                .product(name: "Codecs", package: "im-transports"),
                .product(name: "Transports", package: "im-transports"),
                .product(name: "EmbeddedServers", package: "im-transports"),
                .product(name: "BenchmarkSupport", package: "im-transports"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "SwiftProtobuf", package: "swift-protobuf"),
                .product(name: "FlyingFox", package: "FlyingFox"),
            ],
            resources: [.embedInCode("Others/picows_round_trip.py")],
            swiftSettings: [.unsafeFlags(["-Xfrontend", "-disable-access-control"])]
        ),
    ],
    swiftLanguageModes: [.v6]
)
