(* One row of attention over any number of keys: theorems 10, 20, 54 and 59. *)
From Lrp Require Import Rules.

(* Theorem 10 is refuted: "Eq. 5 conserves relevance: what the logits receive is what arrived at the
   attention weights."  Equal logits receive nothing in all, for every number of keys. *)
Lemma eq5_total z r : length r = length z ->
  sum (eq5 z r) = sum (zip Rmult r z) - sum r * mean_logit z.
Proof.
  intros H. unfold eq5, mean_logit. pose proof (softmax_length z) as L.
  generalize dependent (softmax z). generalize (sum r). intros k. revert r H.
  induction z as [|u z IH]; destruct r as [|q r]; intros H [|a s] L; simpl in *; try discriminate;
    [ring|]. injection H as H. injection L as L. rewrite (IH r H s L). ring.
Qed.

Theorem theorem_10_eq5_does_not_conserve c r : sum r <> 0 ->
  sum (eq5 (repeat c (length r)) r) = 0 /\ sum (eq5 (repeat c (length r)) r) <> sum r.
Proof.
  intros N. enough (E : sum (eq5 (repeat c (length r)) r) = 0) by (rewrite E; auto).
  rewrite eq5_total by (now rewrite repeat_length). unfold mean_logit.
  pose proof (softmax_length (repeat c (length r))) as L. rewrite repeat_length in L.
  rewrite <- L at 3. rewrite !sum_zip_repeat, softmax_sum; [ring|].
  destruct r; [now elim N|discriminate].
Qed.

(* The witness of the catalogue: of relevance 1, 2, 3 at logits 0, nothing is left. *)
Theorem theorem_10_keeps_0_of_6 : sum (eq5 [0; 0; 0] [1; 2; 3]) = 0 /\ sum [1; 2; 3] = 6.
Proof. split; [apply (theorem_10_eq5_does_not_conserve 0 [1; 2; 3])|]; simpl; lra. Qed.

(* A row of attention: logits z and, in one channel, values v.  Key i stands between the keys before
   and after it, and a row without it is a softmax over the others alone. *)
Definition readout (z v : list R) : R := sum (zip Rmult (softmax z) v).
Record row := Row { z1 : list R; zi : R; z2 : list R }.
Record channel := Channel { v1 : list R; vi : R; v2 : list R }.
Definition logits (k : row) : list R := z1 k ++ zi k :: z2 k.
Definition values (c : channel) : list R := v1 c ++ vi c :: v2 c.
Definition output (k : row) (c : channel) : R := readout (logits k) (values c).
Definition without (k : row) (c : channel) : R := readout (z1 k ++ z2 k) (v1 c ++ v2 c).
Definition weight (k : row) : R := exp (zi k) / sum (map exp (logits k)).
Definition leave_one_out (k : row) (c : channel) : R := output k c - without k c.

(* Every key has a value, and there is another key. *)
Definition fits (k : row) (c : channel) : Prop :=
  length (z1 k) = length (v1 c) /\ length (z2 k) = length (v2 c) /\ z1 k ++ z2 k <> [].

Lemma readout_sum z v : readout z v = sum (zip Rmult (map exp z) v) / sum (map exp z).
Proof.
  unfold readout, softmax, Rdiv. generalize (/ sum (map exp z)). intros k.
  revert v. induction z; destruct v; simpl; try rewrite IHz; ring.
Qed.

(* The output is a mean of v_i and the output without key i; its weight is between 0 and 1. *)
Lemma output_mean k c : fits k c ->
  output k c = weight k * vi c + (1 - weight k) * without k c /\ 0 < weight k < 1.
Proof.
  intros [L1 [L2 N]]. unfold output, without, weight, logits, values. rewrite !readout_sum.
  rewrite !map_app. simpl map. rewrite !zip_app by (now rewrite map_length). simpl zip.
  rewrite !sum_app. simpl sum. apply sum_exp_pos in N. rewrite map_app, sum_app in N.
  pose proof (exp_pos (zi k)). split; [field; lra|]. split; [apply Rdiv_lt_0_compat; lra|].
  apply (Rmult_lt_reg_r (sum (map exp (z1 k)) + (exp (zi k) + sum (map exp (z2 k))))); [lra|].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

(* Theorem 20: "Leaving key i out of one row of attention changes its output by exactly
   O - O_without_i = A_i/(1 - A_i) (v_i - O), for any number of keys." *)
Theorem theorem_20_leaving_a_key_out k c : fits k c ->
  leave_one_out k c = weight k / (1 - weight k) * (vi c - output k c).
Proof.
  intros H. destruct (output_mean k c H) as [E W]. unfold leave_one_out. rewrite E. field. lra.
Qed.

(* Theorem 54: "In one attention layer whose outputs are read by any linear map, the mask relevance
   of a key, summed over all rows, is what leaving the key out takes from the logit."  The key
   stands in any number of rows, each with logits of its own; the map has a number for every row and
   channel, and any constant. *)
Definition reading := list (row * list (channel * R)).
Definition over (f : row -> channel -> R) (l : reading) : R :=
  sum (map (fun k => sum (map (fun c => f (fst k) (fst c) * snd c) (snd k))) l).
Definition mask_relevance : reading -> R :=
  over (fun k c => weight k / (1 - weight k) * (vi c - output k c)).

Theorem theorem_54_mask_relevance_is_leave_one_out l constant :
  (forall k cs c r, In (k, cs) l -> In (c, r) cs -> fits k c) ->
  mask_relevance l = (constant + over output l) - (constant + over without l).
Proof.
  intros H. transitivity (over output l - over without l); [|ring]. unfold mask_relevance, over.
  induction l as [|[k cs] l IH]; simpl; [ring|].
  rewrite IH by (intros; eapply H; simpl; eauto). clear IH.
  assert (E : forall c r, In (c, r) cs -> fits k c) by (intros c r; apply H; now left).
  enough (A : sum (map (fun c => weight k / (1 - weight k) * (vi (fst c) - output k (fst c)) * snd c) cs)
    = sum (map (fun c => output k (fst c) * snd c) cs)
    - sum (map (fun c => without k (fst c) * snd c) cs)) by (rewrite A; ring).
  clear H. induction cs as [|[c r] cs IH]; simpl; [ring|].
  rewrite IH by (intros c' r' I; apply (E c' r'); now right).
  rewrite <- theorem_20_leaving_a_key_out by (apply (E c r); now left). unfold leave_one_out. ring.
Qed.

(* CP-LRP holds the attention weights: Eq. 1 for the values alone, of the relevance f = O. *)
Definition cp_lrp (k : row) (c : channel) : list R :=
  eq1 0 (values c) (softmax (logits k)) 0 (output k c).
Definition of_key (k : row) (c : channel) : R := nth (length (v1 c)) (cp_lrp k c) 0.

Lemma zip_comm a b : zip Rmult a b = zip Rmult b a.
Proof. revert b. induction a; destruct b; simpl; [..|rewrite IHa, Rmult_comm]; reflexivity. Qed.
Lemma cp_lrp_parts k c : output k c <> 0 ->
  cp_lrp k c = zip Rmult (softmax (logits k)) (values c).
Proof.
  intros N. unfold cp_lrp, eq1, linear. rewrite zip_comm, push_0.
  change (sum (zip Rmult (softmax (logits k)) (values c))) with (output k c).
  rewrite <- (map_id (zip _ _ _)) at 2. apply map_ext. intros. field. lra.
Qed.

Lemma of_key_weight k c : fits k c -> output k c <> 0 -> of_key k c = weight k * vi c.
Proof.
  intros [L _] N. unfold of_key. rewrite cp_lrp_parts by exact N.
  unfold softmax, logits, values. rewrite map_app. simpl map.
  rewrite zip_app by (now rewrite map_length). rewrite app_nth2; rewrite zip_length, map_length; [|lia].
  replace (length (v1 c) - Nat.min (length (z1 k)) (length (v1 c)))%nat with O by lia. reflexivity.
Qed.

(* Theorem 59: "As epsilon -> 0 and where O is not 0, leave-one-out of key i is
   (R_i - A_i f)/(1 - A_i) of its relevance R_i by CP-LRP, which adds up to f: so the two differ by
   A_i/(1 - A_i) |R_i - f|." *)
Theorem theorem_59_leave_one_out_from_cp_lrp k c : fits k c -> output k c <> 0 ->
  let A := weight k in let f := sum (cp_lrp k c) in
  f = output k c /\ leave_one_out k c = (of_key k c - A * f) / (1 - A) /\
  Rabs (leave_one_out k c - of_key k c) = A / (1 - A) * Rabs (of_key k c - f).
Proof.
  intros H N A f. assert (F : f = output k c) by (unfold f; now rewrite cp_lrp_parts).
  destruct (output_mean k c H) as [_ W]. fold A in W. split; [exact F|].
  rewrite theorem_20_leaving_a_key_out, of_key_weight, F by assumption. fold A. split; [field; lra|].
  replace (A / (1 - A) * (vi c - output k c) - A * vi c)
    with (A / (1 - A) * (A * vi c - output k c)) by (field; lra).
  rewrite Rabs_mult, (Rabs_pos_eq (A / (1 - A))); [ring|]. apply Rlt_le, Rdiv_lt_0_compat; lra.
Qed.

(* Theorem 59: "As epsilon -> 0 and where O is not 0, CP-LRP misses exactly -A_i O_without_i of
   leave-one-out: in size at most A_i max |v_k| over the keys k != i, attained where these have one value."
   M is any bound of these |v_k|. *)
Lemma readout_bound z v M : length z = length v -> z <> [] -> (forall x, In x v -> Rabs x <= M) ->
  Rabs (readout z v) <= M.
Proof.
  intros L N B. apply sum_exp_pos in N. rewrite readout_sum. unfold Rdiv.
  rewrite Rabs_mult, (Rabs_pos_eq (/ _)) by (apply Rlt_le, Rinv_0_lt_compat; exact N).
  apply (Rmult_le_reg_r (sum (map exp z))); [exact N|]. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  clear N. revert v L B. induction z as [|u z IH]; destruct v as [|x v]; intros L B; try discriminate;
    simpl; [rewrite Rabs_R0; lra|].
  injection L as L. specialize (IH v L ltac:(intros; apply B; now right)).
  assert (X := B x (or_introl eq_refl)). pose proof (exp_pos u).
  pose proof (Rabs_triang (exp u * x) (sum (zip Rmult (map exp z) v))) as T.
  rewrite Rabs_mult, (Rabs_pos_eq (exp u)) in T by lra. nra.
Qed.

Theorem theorem_59_what_cp_lrp_misses k c : fits k c -> output k c <> 0 ->
  let A := weight k in let others := v1 c ++ v2 c in let missed := leave_one_out k c - of_key k c in
  missed = - (A * without k c) /\
  (forall M, (forall x, In x others -> Rabs x <= M) -> Rabs missed <= A * M) /\
  (forall x, others = repeat x (length others) -> Rabs missed = A * Rabs x).
Proof.
  intros H N A others missed. destruct (output_mean k c H) as [E W]. fold A in W.
  assert (M : missed = - (A * without k c)).
  { unfold missed. rewrite of_key_weight by assumption. unfold leave_one_out. rewrite E. fold A. ring. }
  destruct H as [L1 [L2 Z]]. assert (L : length (z1 k ++ z2 k) = length others)
    by (unfold others; rewrite !app_length; lia).
  split; [exact M|]. rewrite M, Rabs_Ropp, Rabs_mult, (Rabs_pos_eq A) by lra. split.
  - intros b B. apply Rmult_le_compat_l; [lra|]. now apply readout_bound.
  - intros x X. do 2 f_equal. unfold without. fold others. rewrite X, <- L, <- softmax_length.
    unfold readout. rewrite sum_zip_repeat, softmax_sum by exact Z. ring.
Qed.
