use drift_agent::probe::*;
fn main() {
    let t = std::time::Instant::now();
    let r = Probe::load(ProbeSettings {
        objects: 100,
        ring: 1 << 20,
        debug: false,
    });
    match r {
        Ok(p) => {
            println!("ok {p:?} {:?}", t.elapsed());
            let t = std::time::Instant::now();
            drop(p);
            println!("drop {:?}", t.elapsed());
        }
        Err(e) => println!("ERR {e}\n{e:?}"),
    }
}
