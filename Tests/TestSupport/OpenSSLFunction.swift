import Foundation

/// Returns a function of OpenSSL that the package does not use; `nil` without OpenSSL.
package func openSSLFunction<Function>(_ name: String, as _: Function.Type) -> Function? {
    guard let library = dlopen("libssl.so.3", RTLD_NOW), let symbol = dlsym(library, name) else { return nil }
    return unsafeBitCast(symbol, to: Function.self)
}
