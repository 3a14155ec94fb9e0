//! Answers seen on a real API server, one by one.

use serde_json::json;

use crate::client::*;

#[tokio::test]
async fn smoke() {
    let wire = Wire::new();
    wire.create(CONFIG_MAPS, &config_map("a")).await;
    wire.create(DEFINITIONS, &widgets()).await;
    println!("{:#}", wire.create(WIDGETS, &widget("a")).await);
    println!("{:#}", wire.get(&format!("{SERVICES}/nope")).await.json);
    println!("{:#}", wire.create(SERVICES, &service("a")).await);
    let _ = json!(1);
}
