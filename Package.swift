// swift-tools-version: 6.1
import PackageDescription

// The root package has no dependencies, on purpose: whatever is compared with other people's packages
// lives in Benchmarks/, which has a manifest of its own.
let package = Package(
    name: "im-transports",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "TransportAPI", targets: ["TransportAPI"]),
        .library(name: "Codecs", targets: ["Codecs"]),
        .library(name: "Transports", targets: ["Transports"]),
        .library(name: "EmbeddedServers", targets: ["EmbeddedServers"]),
        .executable(name: "imbench", targets: ["imbench"]),
    ],
    targets: [
        .target(name: "TransportAPI"),
        .target(name: "Codecs"),
        .target(name: "CSocketIO"),
        .target(name: "SocketIO", dependencies: ["CSocketIO"]),
        .target(name: "Transports", dependencies: ["TransportAPI", "Codecs", "SocketIO"]),
        .target(name: "EmbeddedServers", dependencies: ["Transports"]),
        // A kernel, a clock and a network of a seed, in which everything above runs unchanged.
        .target(name: "CSimulation"),
        .target(name: "Simulation", dependencies: ["SocketIO", "CSocketIO", "CSimulation"]),
        .executableTarget(
            name: "imbench",
            dependencies: [
                "EmbeddedServers", "Transports", "TransportAPI", "Codecs", "SocketIO", "CSocketIO", "Simulation",
            ],
            resources: [.embedInCode("Corpus/messages.tsv")]
        ),
        // All tests are one program: how many of them run at a time is said once, for all.
        .target(name: "CTestWidth", path: "Tests/CTestWidth"),
        .executableTarget(
            name: "CloseAndExit",
            dependencies: ["TransportAPI", "Transports"],
            path: "Tests/CloseAndExit"
        ),
        .target(name: "TestSupport", dependencies: ["SocketIO"], path: "Tests/TestSupport"),
        .testTarget(name: "TransportAPITests", dependencies: ["TransportAPI"]),
        .testTarget(name: "CodecsTests", dependencies: ["Codecs"]),
        .testTarget(
            name: "SimulationTests",
            dependencies: ["Simulation", "EmbeddedServers", "Transports", "SocketIO", "TestSupport"]
        ),
        .testTarget(name: "SocketIOTests", dependencies: ["SocketIO", "CSocketIO", "CTestWidth"]),
        .testTarget(
            name: "TransportsTests",
            dependencies: ["Transports", "EmbeddedServers", "SocketIO", "CSocketIO", "TestSupport"]
        ),
        .testTarget(
            name: "EmbeddedServersTests",
            dependencies: ["EmbeddedServers", "Transports", "TestSupport"],
            exclude: ["Foreign/Support"]
        ),
        .testTarget(name: "imbenchTests", dependencies: ["imbench", "TestSupport"]),
        // The functions that Fuzz/, a package of its own, gives any bytes; here they replay the committed ones.
        .testTarget(
            name: "FuzzTests",
            dependencies: ["TransportAPI", "Codecs", "SocketIO", "Transports", "EmbeddedServers"],
            path: "Fuzz",
            exclude: ["Package.swift", "Main", "Corpora", "Crashes", "Dictionaries"],
            sources: ["Targets", "Tests"]
        ),
    ],
    swiftLanguageModes: [.v6]
)
